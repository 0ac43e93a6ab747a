import { startQuartet } from "quartet-server";

const quartet = await startQuartet();
const told = await (await fetch(`${quartet.restUrl}/echo/redis`)).json();
const urls = [["rest", quartet.restUrl], ["dynamodb", quartet.dynamodbUrl], ["fauna", quartet.faunaUrl]];
console.log([told.result, ...urls.filter(([, url]) => /^http:\/\/127\.0\.0\.1:\d+$/.test(url)).map(([name]) => name)].join(" "));
await quartet.stop();
